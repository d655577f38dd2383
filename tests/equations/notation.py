"""What the symbols of the chapters mean in the names of their checks."""

from tex_to_python import Notation

CTC = Notation(
    patterns={
        r"\alpha_{#t}(#s)": "alpha[#t, #s]",
        r"\beta_{#t}(#s)": "beta[#t, #s]",
        r"\beta^\circ_{#t}(#s)": "beta_2006[#t, #s]",
        r"y_{#t}(#k)": "y[#t, #k]",
        r"x_{#t}(#k)": "x[#t, #k]",
        r"E_{#t}(#k)": "occupancy[#t, #k]",
        r"l'_{#s}": "labels[#s]",
        "Z": "z",
        r"\frac{\partial Z}{\partial y_t(k)}": "grad_probs",
        r"\frac{\partial L}{\partial u_t(k)}": "grad_logits",
        r"\frac{\partial L}{\partial z_t(k)}": "grad_logits",
    },
    over={"s": "range(S)"},
    conditions={r"\text{for every } t": "True"},
)

RNNT = Notation(
    patterns={
        r"\alpha(#t, #u)": "alpha[#t, #u]",
        r"\beta(#t, #u)": "beta[#t, #u]",
        r"\gamma(#t, #u)": "gamma[#t, #u]",
        r"\varnothing(#t, #u)": "y[#t, #u, blank]",
        r"y(#t, #u)": "y[#t, #u, labels[#u]]",
        r"y_{#t,#u}(#k)": "y[#t, #u, #k]",
        r"x_{#t,#u}(#k)": "x[#t, #u, #k]",
        r"E_{#t,#u}(#k)": "occupancy[#t, #u, #k]",
        r"e_\varnothing(#t, #u)": "e_blank[#t, #u]",
        r"e_y(#t, #u)": "e_label[#t, #u]",
        r"\gamma_\varnothing(#t, #u)": "e_blank[#t, #u]",
        r"\gamma_y(#t, #u)": "e_label[#t, #u]",
        r"\varnothing": "blank",
        r"l_{#u}": "labels[#u]",
        "Z": "z",
        r"\frac{\partial Z}{\partial y_{t,u}(k)}": "grad_probs",
        r"\frac{\partial L}{\partial a_{t,u}(k)}": "grad_logits",
        r"\frac{\partial L}{\partial z_{t,u}(k)}": "grad_logits",
    },
)
