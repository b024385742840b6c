"""Figures 7 and 8 (section 6.3): do chains of images change class more often by Ozaki?"""
