"""Work on Kubernetes: pods that are bound here, watched, and recorded before they go."""
