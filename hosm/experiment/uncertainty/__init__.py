"""Figures 3 and 4 (section 5): does s2 tell where a denoised image is uncertain?"""
