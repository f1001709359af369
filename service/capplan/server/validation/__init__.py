"""What a request must look like before anything is looked up or worked out; every fault is reported at once."""
