"""What `import harness` offers: the functions that the commands call as well."""
