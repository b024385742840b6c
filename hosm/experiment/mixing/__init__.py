"""Table 3, figures 5 and 6 (section 6): does Ozaki sampling, by s2, mix faster than Langevin?"""
