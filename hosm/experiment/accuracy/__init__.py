"""Table 1 (section 4.4): is a learned s2 more accurate than the derivative of a learned s1?"""
