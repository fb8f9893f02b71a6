"""The console scripts: each reads the configuration, runs one thing, and stops on a signal."""
