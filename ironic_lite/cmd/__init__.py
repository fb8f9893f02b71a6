"""The console scripts: each runs one task and stops on a signal."""
