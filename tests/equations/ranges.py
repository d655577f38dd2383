"""What the names of CTC's and RNN-T's checks are, and which ends of their ranges the cases must have."""

from brute_force import blank_of

from reference_impl.equations import Quantities


def all_equal(labels):
    return len(labels) >= 2 and len(set(labels)) == 1


def none_equal(labels):
    return len(labels) >= 2 and len(set(labels)) == len(labels)


CTC = Quantities(
    shapes={"y": "T, V", "x": "T, V", "occupancy": "T, V", "alpha": "T, 2 U + 1", "beta": "T, 2 U + 1",
            "labels": "2 U + 1", "kappa": "2 U + 1", "S": "2 U + 1", "targets": "U", "T": "T", "V": "V"},
    ends={
        "T = 1": lambda T: T == 1,
        "U = 0": lambda U: U == 0,
        "all labels equal": (lambda labels: all_equal(_plain(labels)[1::2]), lambda targets: all_equal(targets)),
        "no two labels equal": (lambda labels: none_equal(_plain(labels)[1::2]), lambda targets: none_equal(targets)),
        "a blank that is not 0": (lambda labels: labels[0] != 0, lambda targets: blank_of(targets) != 0),
        "t = 0": lambda t: t == 0,
        "t = T - 1": lambda t, T: t == T - 1,
        "s = 0": lambda s: s == 0,
        "s = 2U": lambda s, U: s == 2 * U,
        "k the blank": (lambda k, labels: k == labels[0], lambda k, targets: k == blank_of(targets)),
        "k in no label": (lambda k, labels: k not in _plain(labels),
                          lambda k, targets: k not in [*targets, blank_of(targets)]),
        "a dead node": lambda alpha, beta: (getattr(alpha, "array", alpha) * getattr(beta, "array", beta) == 0).any(),
    },
    left_out={"T < U": "no alignment is shorter than its target"},
)

RNNT = Quantities(
    shapes={"y": "T, U + 1, V", "x": "T, U + 1, V", "occupancy": "T, U + 1, V", "alpha": "T, U + 1",
            "beta": "T + 1, U + 1", "gamma": "T, U + 1", "e_blank": "T, U + 1", "e_label": "T, U", "labels": "U",
            "targets": "U", "T": "T", "U": "U", "V": "V"},
    ends={
        "T = 1": lambda T: T == 1,
        "U = 0": lambda U: U == 0,
        "all labels equal": (lambda labels: all_equal(_plain(labels)), lambda targets: all_equal(targets)),
        "no two labels equal": (lambda labels: none_equal(_plain(labels)), lambda targets: none_equal(targets)),
        "a blank that is not 0": (lambda blank: blank != 0, lambda labels: blank_of(labels) != 0,
                                  lambda targets: blank_of(targets) != 0),
        "t = 0": lambda t: t == 0,
        "t = T - 1": lambda t, T: t == T - 1,
        "u = 0": lambda u: u == 0,
        "u = U": lambda u, U: u == U,
        "k the blank": (lambda k, blank: k == blank, lambda k, labels: k == blank_of(labels)),
        "k the next label": lambda k, u, labels: k in _plain(labels)[u:u + 1],
        "k another symbol": (lambda k, u, labels, blank: k not in [*_plain(labels)[u:u + 1], blank],
                             lambda k, u, labels: k not in [*_plain(labels)[u:u + 1], blank_of(labels)]),
    },
)


def _plain(labels):
    return list(getattr(labels, "array", labels))
