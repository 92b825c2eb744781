"""Mistakes that people make in backward passes, written once: each as a change to the source of our rule.

``gradcheck --break`` shows which checks catch them (``mutations.py``), and the course names them in a learner's answer.
The name of a mistake goes on from "a rule whose gradient ...".
"""

_SOFTMAX = """\
g = relative_to_likeliest(g, y, axis)
    return y * (g - xp.sum(g * y, axis=axis, keepdims=True))"""
_LOG_SOFTMAX = "return summing_to_zero(g - p * xp.sum(g, axis=axis, keepdims=True), p, axis)"
_LAYER_NORM = "return (p - mean_p - z * mean_pz) / sigma"
_SCORES = "softmax_vjp(dweights, weights, None)"
_WEIGHTS = "_weights(q, k, mask, causal, scale)"
_UNMASKED = "_weights(q, k, None, False, scale)"
_EMBEDDING = "return sum_by_id.rule(g, ids, rows=_weight.shape[0], padding_idx=padding_idx)"
_SIGMOID = "return g * y * sigmoid.rule(-x)"

_NO_G = "the gradient of the loss is linear in g; without g the loss that follows has no influence"
_COPIES = "each copy of an element sends its cotangent back, and they add up"
_MINUS_SIGN = "follow the sign through the derivation, one step at a time"
_OFF_DIAGONAL = "the Jacobian of softmax has entries off the diagonal too: raising one score lowers the others' weights"
_ONE_ROW = (
    "the scores of one query compete with each other: the sum runs over its keys, the last axis"
)
_MASK = "a masked score is -inf before the softmax, in the backward pass too"

# primitive -> function -> what the gradient then is or does -> (before, after, why that is a mistake)
CHANGES = {
    "add": {
        "add_vjp_x": {
            "has the wrong sign in x": ("return g", "return -g", _MINUS_SIGN),
            "lacks the cotangent in x": ("return g", "return g**0", _NO_G),
        },
        "add_vjp_y": {
            "has the wrong sign in y": ("return g", "return -g", "that would be a difference"),
        },
        "unbroadcast": {
            "averages over the copies instead of summing": (
                "xp.sum(cotangent, axis=",
                "xp.mean(cotangent, axis=",
                _COPIES,
            ),
            "takes the first copy only": (
                "xp.sum(cotangent, axis=stretched, keepdims=True)",
                "cotangent[tuple(slice(0, 1 if a in stretched else None) for a in range(len(cotangent.shape)))]",
                _COPIES,
            ),
        },
    },
    "sum": {
        "sum_vjp": {
            "averages": (
                "broadcast_to(g, _x.shape)",
                "broadcast_to(g / reduced_count(_x.shape, axis), _x.shape)",
                "each element enters the sum with the factor 1; 1/n belongs to the mean",
            ),
            "lacks the cotangent": ("broadcast_to(g,", "broadcast_to(g**0,", _NO_G),
            "has the wrong sign": ("broadcast_to(g,", "broadcast_to(-g,", _MINUS_SIGN),
            "returns zeros": (
                "broadcast_to(g,",
                "broadcast_to(0 * g,",
                "a sum depends on each element",
            ),
            "ignores which axis was reduced": (
                "with_reduced_axes(g, _x.shape, axis, keepdims)",
                "g",
                "the axis that the sum took away must come back, with length 1, before g is broadcast: NumPy "
                "otherwise lines g up with the last axes",
            ),
        }
    },
    "mean": {
        "mean_vjp": {
            "is not divided by n": (
                " / reduced_count(_x.shape, axis)",
                "",
                "each of the n elements enters the mean with the factor 1/n",
            ),
            "divides by the number of all elements": (
                "reduced_count(_x.shape, axis)",
                "reduced_count(_x.shape, None)",
                "n counts the elements that one mean takes together, those along axis",
            ),
            "divides by the length of the first axis": (
                "reduced_count(_x.shape, axis)",
                "_x.shape[0]",
                "n is the length of the axes that are reduced, whichever they are",
            ),
            "divides by the length of the last axis": (
                "reduced_count(_x.shape, axis)",
                "_x.shape[-1]",
                "n is the length of the axes that are reduced, whichever they are",
            ),
            "lacks the cotangent": ("broadcast_to(g,", "broadcast_to(g**0,", _NO_G),
            "ignores which axis was reduced": (
                "with_reduced_axes(g, _x.shape, axis, keepdims)",
                "g",
                "the axis that the mean took away must come back, with length 1, before g is broadcast",
            ),
        }
    },
    "sigmoid": {
        "sigmoid_vjp": {
            "lacks the factor 1 - y": (
                " * sigmoid.rule(-x)",
                "",
                "y' = y (1 - y): the curve is flat where y nears 1, too",
            ),
            "lacks the factor y": (
                " * y",
                "",
                "y' = y (1 - y): the curve is flat where y nears 0, too",
            ),
            "lacks the cotangent": ("g * y", "y", _NO_G),
            "has y where 1 - y belongs": ("rule(-x)", "rule(x)", "y' = y (1 - y)"),
            "has the wrong sign": ("return g", "return -g", "the sigmoid rises everywhere"),
            "uses x where y belongs": (
                _SIGMOID,
                "return g * x * (1 - x)",
                "y' = y (1 - y) is written with the output y, not with the input x",
            ),
            "takes the sigmoid of y": (
                _SIGMOID,
                "s = sigmoid.rule(y)\n    return g * s * (1 - s)",
                "y is the sigmoid of x already",
            ),
        }
    },
    "softmax": {
        "softmax_vjp": {
            "returns zeros": (_SOFTMAX, "return 0 * g"),
            "is 7 times too large": ("return y *", "return 7 * y *"),
            "lacks the outer y": (
                "return y * (",
                "return (",
                "each row of the Jacobian has the factor y_j: an unlikely class hardly moves",
            ),
            "has the wrong sign": ("return y *", "return -y *", _MINUS_SIGN),
            "lacks the subtracted mean": (_SOFTMAX, "return y * g", _OFF_DIAGONAL),
            "treats every element independently": (
                _SOFTMAX,
                "return g * y * (1 - y)",
                "y (1 - y) is the diagonal of the Jacobian only: " + _OFF_DIAGONAL,
            ),
            "lacks the weights in the mean": (
                _SOFTMAX,
                "return y * (g - xp.sum(g, axis=axis, keepdims=True))",
                "what is subtracted is the average g under the distribution, sum_i g_i y_i",
            ),
            "adds the mean": (
                _SOFTMAX,
                "return y * (g + xp.sum(g * y, axis=axis, keepdims=True))",
                "the entries off the diagonal are negative, -y_i y_j",
            ),
            "lacks the cotangent": (
                _SOFTMAX,
                "return y - xp.sum(y * y, axis=axis, keepdims=True)",
                _NO_G,
            ),
            "sums along the wrong axis": (
                _SOFTMAX,
                "return y * (g - xp.sum(g * y, axis=0, keepdims=True))",
                "the sum runs along the axis along which the outputs add up to 1",
            ),
            "sums over all elements": (
                _SOFTMAX,
                "return y * (g - xp.sum(g * y))",
                "each row is a separate distribution and subtracts its own mean",
            ),
            "averages instead of summing": (
                _SOFTMAX,
                "return y * (g - xp.mean(g * y, axis=axis, keepdims=True))",
                "the y_i are the weights of the average already and add up to 1",
            ),
        }
    },
    "log_softmax": {
        "log_softmax_vjp": {
            "takes the sum of g for 1": (
                _LOG_SOFTMAX,
                "return g - p",
                "g - p holds where the g of a row add up to 1, as for one loss; in general p is times sum_i g_i",
            ),
            "lacks the subtracted term": (
                _LOG_SOFTMAX,
                "return g",
                "all outputs of a row contain the same log-sum-exp, which every score moves",
            ),
            "lacks the first g": (
                _LOG_SOFTMAX,
                "return -p * xp.sum(g, axis=axis, keepdims=True)",
                "x_i stands in its own output with the factor 1",
            ),
            "has y where p = exp(y) belongs": (
                _LOG_SOFTMAX,
                "return g - y * xp.sum(g, axis=axis, keepdims=True)",
                "the output y is the logarithm of the probability",
            ),
            "is that of softmax": (
                _LOG_SOFTMAX,
                "return p * (g - xp.sum(g * p, axis=axis, keepdims=True))",
                "the logarithm cancels the factor p",
            ),
            "sums along the wrong axis": (
                _LOG_SOFTMAX,
                "return g - p * xp.sum(g, axis=0, keepdims=True)",
                "the sum runs along the axis along which the probabilities add up to 1",
            ),
            "has the wrong sign": (
                _LOG_SOFTMAX,
                "return -(g - p * xp.sum(g, axis=axis, keepdims=True))",
                _MINUS_SIGN,
            ),
        }
    },
    "layer_norm": {
        "layer_norm_vjp_x": {
            "returns zeros": (_LAYER_NORM, "return 0 * g"),
            "lacks the variance term": (
                " - z * mean_pz",
                "",
                "the deviation sigma is a function of x as well, and so depends on each element",
            ),
            "has the wrong sign": ("return (p", "return -(p", _MINUS_SIGN),
            "lacks the mean term": (
                " - mean_p ",
                " ",
                "the mean mu is a function of x as well: a shift of the whole row changes nothing, so dx adds up "
                "to 0",
            ),
            "lacks both means": (
                _LAYER_NORM,
                "return p / sigma",
                "mu and sigma are functions of x as well, not constants",
            ),
            "is not divided by the deviation": (
                " / sigma",
                "",
                "the row was divided by sigma: a row twice as wide moves its z half as much",
            ),
            "divides by the variance": ("/ sigma", "/ sigma**2", "z = c / sigma has one sigma"),
            "adds the variance term": ("- z * mean", "+ z * mean", _MINUS_SIGN),
            "lacks the factor w": (
                "p = g if weight is None else g * weight",
                "p = g",
                "y = w z + b: the cotangent of z is p = g w",
            ),
            "multiplies by w at the end": (
                """p = g if weight is None else g * weight
    mean_p = xp.mean(p, axis=axes, keepdims=True)
    mean_pz = xp.mean(p * z, axis=axes, keepdims=True)
    return (p - mean_p - z * mean_pz) / sigma""",
                """p = g
    mean_p = xp.mean(p, axis=axes, keepdims=True)
    mean_pz = xp.mean(p * z, axis=axes, keepdims=True)
    return (1 if weight is None else weight) * (p - mean_p - z * mean_pz) / sigma""",
                "w belongs inside the means: they are taken of p = g w",
            ),
            "sums instead of averaging": (
                "mean_p = xp.mean(p, axis=axes, keepdims=True)\n    mean_pz = xp.mean(",
                "mean_p = xp.sum(p, axis=axes, keepdims=True)\n    mean_pz = xp.sum(",
                "mu and sigma^2 are means: both terms have the factor 1/n",
            ),
        },
        "layer_norm_vjp_weight": {
            "has x where z belongs in dw": (
                "return g * z",
                "return g * x",
                "w multiplies the normalized row z, not x",
            ),
            "lacks z in dw": ("return g * z", "return g", "dy/dw = z"),
        },
    },
    "cross_entropy": {
        "cross_entropy_vjp_logits": {
            "lacks the cotangent": ("_row_cotangent(g,", "_row_cotangent(g**0,", _NO_G),
            "lacks the target": (
                "summing_to_zero(p - q, p, -1)",
                "p",
                "the loss holds -z_t, the logit of the target class, as well",
            ),
            "lacks the probabilities": (
                "summing_to_zero(p - q, p, -1)",
                "-q",
                "the log-sum-exp depends on every logit, with the slope p_j",
            ),
            "looks at the target class only": (
                "summing_to_zero(p - q, p, -1)",
                "q * (p - q)",
                "every logit takes part in the log-sum-exp, so that the other classes have the gradient p_j",
            ),
            "has the logits where the probabilities belong": (
                "summing_to_zero(p - q, p, -1)",
                "(logits - q)",
                "d log sum_j exp(z_j) / dz_j = p_j, the softmax of the logits",
            ),
            "has the wrong sign": (
                "g[..., None] *",
                "-g[..., None] *",
                "the loss falls as the target's logit rises: p - onehot, not onehot - p",
            ),
            "counts ignored places": ("kept[..., None],", "kept[..., None] | True,"),
            "sums instead of averaging": (
                "kept, reduction)",
                'kept, "sum")',
                "the loss is the mean over the rows: each has the factor 1 / number of rows",
            ),
            "divides by the number of all logits": (
                "g = _row_cotangent(g, kept, reduction)",
                'g = _row_cotangent(g / logits.size, kept, "sum")',
                "the mean is taken over the rows, not over the classes",
            ),
        }
    },
    "attention": {
        "_score_cotangent": {
            "lacks the mean term of the softmax": (_SCORES, "weights * dweights", _OFF_DIAGONAL),
            "treats every weight independently": (
                _SCORES,
                "dweights * weights * (1 - weights)",
                "P (1 - P) is the diagonal of the Jacobian only: " + _OFF_DIAGONAL,
            ),
            "lacks the outer weights": (
                _SCORES,
                "dweights - (weights * dweights).sum(axis=-1, keepdims=True)",
                "dS = P (dP - sum P dP): each score's gradient has its own weight as a factor",
            ),
            "sums over the queries": (
                _SCORES,
                "weights * (dweights - (weights * dweights).sum(axis=-2, keepdims=True))",
                _ONE_ROW,
            ),
            "leaves out the softmax": (
                _SCORES,
                "dweights",
                "between the scores and the weights stands a softmax",
            ),
            "ignores the mask": (_WEIGHTS, _UNMASKED, _MASK),
            "applies the mask after the softmax": (
                _WEIGHTS,
                _UNMASKED + " * visible_keys(q, k, mask, causal)",
                _MASK + "; set to 0 after it, the weights of a row no longer add up to 1",
            ),
        },
        "attention_vjp_q": {
            "lacks the scale in dQ": (" * score_scale(q, scale)", "", "S = scale Q K^T"),
            "has the scale twice in dQ": (
                "* score_scale(q, scale)",
                "* score_scale(q, scale) ** 2",
                "S = scale Q K^T",
            ),
            "divides by head_dim and not by its root in dQ": (
                "score_scale(q, scale)",
                "(1 / q.shape[-1] if scale is None else scale)",
                "the scale is 1 / sqrt(head_dim)",
            ),
            "has Q where K belongs in dQ": (
                "ds @ k",
                "ds @ q",
                "dS/dQ is K: each score is a product of one of each",
            ),
        },
        "attention_vjp_v": {
            "does not transpose the weights in dV": (
                "weights.swapaxes(-1, -2) @ g",
                "weights @ g",
                "a value hears from every query that looked at it: the sum runs over the queries, P^T g",
            ),
            "reverses the queries of the cotangent": ("@ g", "@ g[..., ::-1, :]"),
            "ignores the mask in dV": (_WEIGHTS, _UNMASKED, _MASK),
        },
        "attention_vjp_k": {
            "does not transpose dS in dK": (
                "ds.swapaxes(-1, -2)",
                "ds",
                "a key hears from every query that was compared with it: the sum runs over the queries, dS^T Q",
            ),
            "lacks the scale in dK": (" * score_scale(q, scale)", "", "S = scale Q K^T"),
            "has the scale twice in dK": (
                "* score_scale(q, scale)",
                "* score_scale(q, scale) ** 2",
                "S = scale Q K^T",
            ),
            "has K where Q belongs in dK": (
                "(q * score_scale",
                "(k * score_scale",
                "dS/dK is Q: each score is a product of one of each",
            ),
        },
    },
    "matmul": {
        "matmul_vjp_a": {
            "does not transpose b": (
                "xp.swapaxes(b, -1, -2)",
                "b",
                "y_ij holds a_il with the factor b_lj: the sum runs over j, the columns of b",
            ),
            "reverses the rows of the cotangent": ("matmul(g,", "matmul(g[::-1],"),
            "transposes the cotangent": (
                "matmul(g,",
                "matmul(xp.swapaxes(g, -1, -2),",
                "row i of the gradient of a comes from row i of g",
            ),
            "is the transpose of the right one in a": (
                "return xp.matmul(g, xp.swapaxes(b, -1, -2))",
                "return xp.matmul(b, xp.swapaxes(g, -1, -2))",
                "(g b^T)^T = b g^T",
            ),
            "lacks the cotangent in a": ("matmul(g,", "matmul(g**0,", _NO_G),
        },
        "matmul_vjp_b": {
            "does not transpose a": (
                "xp.swapaxes(a, -1, -2)",
                "a",
                "y_ij holds b_lj with the factor a_il: the sum runs over i, the rows of a",
            ),
            "lacks the cotangent": ("-2), g)", "-2), g**0)", _NO_G),
            "multiplies in the wrong order in b": (
                "xp.matmul(xp.swapaxes(a, -1, -2), g)",
                "xp.matmul(g, xp.swapaxes(a, -1, -2))",
                "matrices do not commute: db = a^T g",
            ),
        },
    },
    "gelu": {
        "gelu_vjp": {
            "lacks the density term": (
                " + x * density",
                "",
                "the product rule has two terms: Phi(x) depends on x as well",
            ),
            "lacks the cumulative term": (
                "cumulative + ",
                "",
                "the product rule has two terms: x itself has the slope 1",
            ),
            "lacks x before the density": (
                "x * density",
                "density",
                "the product rule: (x Phi)' = Phi + x Phi'",
            ),
            "has a density twice too wide": (
                "-0.5 * x * x",
                "-0.25 * x * x",
                "the normal density is exp(-x^2 / 2) / sqrt(2 pi)",
            ),
            "has exp(-x^2) for exp(-x^2 / 2)": (
                "-0.5 * x * x",
                "-x * x",
                "the normal density is exp(-x^2 / 2) / sqrt(2 pi)",
            ),
            "lacks 1 / sqrt(2 pi)": (
                " / math.sqrt(2 * math.pi)\n    return",
                "\n    return",
                "without it the normal density does not integrate to 1",
            ),
            "divides by 2 pi and not by its root": (
                "math.sqrt(2 * math.pi)\n    return",
                "(2 * math.pi)\n    return",
                "the normal density is exp(-x^2 / 2) / sqrt(2 pi)",
            ),
            "subtracts the density term": ("+ x * density", "- x * density", _MINUS_SIGN),
            "is that of ReLU": (
                "(cumulative + x * density)",
                "(x > 0)",
                "GELU is smooth: its slope is 1/2 at 0, and below 0 for some negative x",
            ),
            "lacks the cotangent": ("return g * (", "return (g**0) * (", _NO_G),
            "is a thousandth too large": ("return g *", "return 1.001 * g *"),
        }
    },
    "embedding": {
        "embedding_vjp_weight": {
            "keeps one of several places with the same id": (
                _EMBEDDING,
                "table = array_namespace(g).zeros(_weight.shape, dtype=g.dtype)\n    table[ids] = g\n    return "
                "table",
                "dW[ids] = g, and dW[ids] += g as well, write each row once: where an id is repeated, the last place "
                "wins; np.add.at adds them all",
            ),
            "averages over the places with the same id": (
                _EMBEDDING,
                "count = sum_by_id.rule(g**0, ids, rows=_weight.shape[0])\n    "
                "return sum_by_id.rule(g, ids, rows=_weight.shape[0]) / (count + (count == 0))",
                "a row is copied to every place that names it, and hears from all of them: a sum",
            ),
            "counts the places": ("rule(g,", "rule(g**0,", _NO_G),
            "divides by the number of ids": (
                "return sum",
                "return 1 / ids.size * sum",
                "each copy has the factor 1; the mean over the places is the loss's affair",
            ),
            "has the wrong sign": ("return sum", "return -sum", _MINUS_SIGN),
            "is one row too low": (
                "(g, ids,",
                "(g, (ids + 1) % _weight.shape[0],",
                "ids count from 0",
            ),
        }
    },
}
