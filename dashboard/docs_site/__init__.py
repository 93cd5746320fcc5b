"""The documentation as pages: reference pages made from the code, and the hooks of the build."""
