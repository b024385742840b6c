"""Table 2 (section 4.4): how much faster is s2 than differentiating s1, and what does it cost?"""
