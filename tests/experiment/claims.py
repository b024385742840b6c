"""How tests of claims find one among those that a study makes."""


def claim_of(claims, where, name, exact=False):
    """Return the one claim of a name at a place, or at a place that begins so."""
    claims = list(claims)
    found = [
        claim
        for claim in claims
        if (claim.where == where if exact else claim.where.startswith(where))
        and claim.name == name
    ]
    assert len(found) == 1, [(claim.where, claim.name) for claim in claims]
    return found[0]
