"""A driver of another project: machines that hang on the outlets of a power rack with HTTP."""
