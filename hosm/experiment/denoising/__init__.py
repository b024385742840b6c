"""Figure 2 (section 5): does s2 give the covariance of a point, given its noisy version?"""
