"""What a device is: its rates and links, its MIG geometry, what it achieves of its peaks. Pure."""
