"""What is measured of the U-Net of digits."""
