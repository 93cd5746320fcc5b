"""Forms check shapes; operations decide."""
