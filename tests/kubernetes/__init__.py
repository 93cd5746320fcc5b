"""Work on Kubernetes: against a stand-in of its API, and against a real API server where one was built."""
