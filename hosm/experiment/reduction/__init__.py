"""Figure 1 (section 4.3): does learning s2 need variance reduction as sigma goes to 0?"""
