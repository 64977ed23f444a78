"""Small functions, one for each form of JAX that a program has to state: loops, calls
with rules of their own, devices, random numbers, and primitives that models of the
recorded programs do not use. Each returns a function and its abstract arguments."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

from layers import F32, I32, shape

X = shape(4, 6)
FORMS = {}


def form(*params, **batch):
    def add(fn):
        FORMS[fn.__name__] = (fn, list(params), batch)
        return fn
    return add


@form(X, n=shape(dtype=I32))
def loops(p, b):
    def body(i, x):
        return jnp.sin(x) + i * p[0]
    x = lax.fori_loop(0, b["n"] + 2, body, p[0])
    x, i = lax.while_loop(lambda c: (c[1] < 5) & (c[0].sum() < 1e6),
                          lambda c: (c[0] * 1.5 + p[0], c[1] + 1), (x, 0))
    ys = lax.map(lambda row: row.cumsum(), x)
    return x, i, ys, lax.scan(lambda c, x: (c + x, c * x), p[0][0], p[0], reverse=True)


@form(X, n=shape(dtype=I32))
def branches(p, b):
    x = lax.cond(p[0][0, 0] > 0, lambda x: x * 2, lambda x: -x, p[0])
    return lax.switch(b["n"], [jnp.sin, jnp.cos, lambda x: x @ x.T @ x], x)


@form(X, X)
def gradients(p, b):
    @jax.custom_vjp
    def double(x):
        return jnp.sin(x)
    double.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (2 * jnp.cos(x) * g,))

    @jax.custom_jvp
    def soft(x):
        return jnp.log1p(jnp.exp(x))
    soft.defjvp(lambda x, t: (soft(x[0]), jax.nn.sigmoid(x[0]) * t[0]))

    @functools.partial(jax.checkpoint,
                       policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
    def block(x, w):
        return double(x @ w.T) + soft(jax.nn.relu(x) @ w.T)

    def loss(p):
        def turn(x, i):
            return jax.nn.silu(block(x, p[1])) @ p[1], x.sum()
        x, sums = lax.scan(jax.checkpoint(turn), p[0], jnp.arange(3))
        return x.sum() + sums.mean()
    return jax.value_and_grad(loss)(p)


@form(X, x=shape(3, 2, 6))
def micro_batches(p, b):
    """Gradients accumulated in a scan."""
    def turn(total, x):
        g = jax.grad(lambda p: jnp.square(x @ p[0].T).mean())(p)
        return jax.tree.map(jnp.add, total, g), None
    zero = jax.tree.map(jnp.zeros_like, p)
    g, _ = lax.scan(turn, zero, b["x"])
    return jax.tree.map(lambda p, g: p - 0.1 * g, p, g)


@form(shape(3, 5), shape(5), x=shape(2, 4, 5))
def batched(p, b):
    one = jax.vmap(jax.jit(lambda x, w, c: jnp.tanh(w @ x + c[:3])), (0, None, None))
    return jax.vmap(one, (0, None, None))(b["x"], p[0], p[1])


@form(shape(2, 3, 8, 8), shape(6, 3, 3, 3), shape(8, 1, 3), x=shape(2, 9, 8))
def convolutions(p, b):
    def value(p):
        y = lax.conv_general_dilated(p[0], p[1], (2, 1), "SAME", rhs_dilation=(1, 2))
        z = lax.conv_general_dilated(
            b["x"], p[2].transpose(2, 1, 0), (1,), [(2, 0)],
            dimension_numbers=("NHC", "HIO", "NHC"), feature_group_count=8)
        u = lax.conv_transpose(p[0], p[1], (2, 2), "VALID",
                               dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return jnp.square(y).sum() + jnp.sin(z).sum() + jnp.square(u).mean()
    return jax.value_and_grad(value)(p)


@form(X, shape(7, 3), i=shape(2, 5, dtype=I32), at=shape(dtype=I32))
def indices(p, b):
    x, w = p
    i = b["i"]
    y = w[i]
    return (
        jnp.take(x, i, 1, mode="clip"), jnp.take(x, i, 1, mode="fill"), y,
        x.at[i].add(1.0), x.at[:, i].set(2.0), x.at[i, i].max(0.5),
        x.at[i, i].multiply(2.0), jnp.take_along_axis(y, i[..., None] % 3, -1),
        lax.dynamic_slice(x, (b["at"], 0), (2, 6)),
        lax.dynamic_update_slice(x, w[:2], (b["at"], b["at"])),
        lax.dynamic_index_in_dim(x, b["at"], 0), x[jnp.array([2, 0])],
        jax.vmap(lambda row, j: row[j])(x, i[0, :4]),
        jax.nn.one_hot(i, 7) @ w, x[1:, ::2], x[-1], x.at[1:3].set(0.0))


@form(X, i=shape(5, dtype=I32))
def orders(p, b):
    x = p[0]
    values, places = lax.top_k(x, 3)
    keys = lax.sort((b["i"], jnp.arange(5)), num_keys=1)
    return (jnp.sort(x, 0), jnp.argsort(x, 1), values, places, keys, x.argmax(1),
            x.argmin(0), jnp.cumsum(x, 1), lax.cummax(x, 0, reverse=True),
            jnp.cumprod(x, 1), lax.cumlogsumexp(x, 1), jnp.any(x > 0, 1),
            jnp.all(x > 0, 0), x.prod(1), jnp.bincount(b["i"], length=5),
            lax.associative_scan(jnp.add, x, axis=1), jnp.searchsorted(
                jnp.sort(x[0]), x[1]))


@form(X, shape(3), n=shape(4, dtype=I32))
def shapes(p, b):
    x, y = p
    a, c = jnp.split(x, [2], 1)
    return (jnp.tile(x, (2, 3)), jnp.stack([x, x], 1), jnp.flip(x, 0), jnp.roll(x, 2, 1),
            lax.pad(x, 1.5, [(1, 2, 1), (-1, -2, 0)]), jnp.pad(x, 1, mode="edge"),
            x.reshape(2, 2, 6).transpose(2, 0, 1), jnp.repeat(y, 2), a, c, x[:, None],
            jnp.broadcast_to(y, (2, 3)), jnp.outer(y, y), jnp.tril(x @ x.T),
            jnp.concatenate([x, a], 1), x.ravel(order="F"), jnp.eye(3),
            [one * 2 for one in lax.split(x, (1, 3), 0)], b["n"] // 3, b["n"] % 3,
            b["n"] ** 2, jnp.clip(x, -0.1, 0.2), jnp.arange(6) * b["n"].sum())


@form(X)
def functions(p, b):
    x = p[0]
    a = jnp.abs(x) + 0.1
    return (jnp.exp2(x), jnp.expm1(x), jnp.log(a), jnp.log1p(a), jnp.tan(x),
            jnp.arctan2(x, a), jnp.cbrt(x), lax.erf_inv(x * 0.5), jax.nn.gelu(x, False),
            jnp.round(x * 4), jnp.floor(x), jnp.ceil(x), jnp.sign(x), x ** 3, a ** -2,
            a ** 0.3, a ** x, jnp.isfinite(x), jnp.where(x > 0, x, 0.0), x % 0.3,
            jnp.logical_not(x > 0) & (x < 0.1) | (x > 0.2), jax.nn.softplus(x),
            jax.nn.logsumexp(x, 1), jnp.sqrt(a), lax.rsqrt(a), jnp.maximum(x, 0.1),
            jax.nn.relu6(x), jnp.linalg.norm(x, axis=1), jnp.var(x, 0))


@form(shape(2, 5, 5), shape(2, 5, 3))
def triangles(p, b):
    a = p[0] + 4 * jnp.eye(5)
    from jax.scipy.linalg import solve_triangular
    return (solve_triangular(a, p[1], lower=True),
            lax.linalg.triangular_solve(a, p[1].transpose(0, 2, 1), lower=False),
            solve_triangular(a, p[1], trans=1, unit_diagonal=True))


@form(shape(4, 6, dtype=jnp.bfloat16), shape(6, 8))
def mixed(p, b):
    def value(p):
        h = jnp.dot(p[0], p[1].astype(jnp.bfloat16), preferred_element_type=F32)
        return jnp.square(jax.nn.softmax(h)).sum()
    return jax.value_and_grad(value)(p)


@form(shape(4, 6), key=jax.eval_shape(lambda: jax.random.key(0)))
def dropout(p, b):
    one, two = jax.random.split(b["key"])
    keep = jax.random.bernoulli(one, 0.7, p[0].shape)
    noise = jax.random.normal(jax.random.fold_in(two, 7), p[0].shape)
    return jnp.where(keep, p[0] / 0.7, 0) + noise


MESH = AbstractMesh((2, 4), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
REAL = jax.make_mesh((2, 4), ("fsdp", "tp"),
                     axis_types=(jax.sharding.AxisType.Auto,) * 2) \
    if len(jax.devices()) >= 8 else MESH


@form(shape(8, 16), shape(16, 8), x=shape(4, 8))
def devices(p, b):
    """A matrix over tp by hand, with gradients, and the other collectives."""
    @functools.partial(
        jax.shard_map, mesh=REAL, in_specs=(P("fsdp"), P("fsdp", "tp"), P("tp", "fsdp")),
        out_specs=(P("fsdp"), P(("fsdp", "tp"))))
    def local(x, up, down):
        up = lax.all_gather(up, "fsdp", axis=0, tiled=True)
        down = lax.all_gather(down, "fsdp", axis=1, tiled=True)
        y = lax.psum(jnp.sin(x @ up) @ down, "tp")
        z = lax.psum_scatter(jnp.sin(x @ up) @ down, "tp", scatter_dimension=1,
                             tiled=True)
        z = lax.all_to_all(jnp.tile(z, (2, 1)), "tp", 0, 1, tiled=True)
        z = lax.ppermute(z, "fsdp", [(0, 1), (1, 0)])
        return y, z + lax.axis_index("tp") + lax.pmax(
            lax.stop_gradient(z), ("fsdp", "tp"))

    def value(p):
        y, z = local(b["x"], *p)
        return jnp.square(y).sum() + jnp.sin(z).sum()
    return jax.value_and_grad(value)(p)


@form(shape(2, 8, 4), shape(2, 8, 4), shape(2, 8, 4))
def ring(p, b):
    """Ring attention: blocks of keys and values go round, a scan with ppermute."""
    @functools.partial(jax.shard_map, mesh=REAL, in_specs=(P(None, "tp"),) * 3,
                       out_specs=P(None, "tp"))
    def local(q, k, v):
        def turn(c, _):
            k, v, top, low, y = c
            s = jnp.einsum("bqd,bkd->bqk", q, k)
            new = jnp.maximum(top, s.max(-1))
            w = jnp.exp(s - new[..., None])
            old = jnp.exp(top - new)
            y = y * old[..., None] + w @ v
            k, v = (lax.ppermute(a, "tp", [(i, (i + 1) % 4) for i in range(4)])
                    for a in (k, v))
            return (k, v, new, low * old + w.sum(-1), y), None
        rows = q[..., 0]
        start = (k, v, rows * 0 - 1e9, rows * 0, q * 0)
        (_, _, _, low, y), _ = lax.scan(turn, start, length=4)
        return y / low[..., None]
    return local(*p)


@form(shape(8, 16), x=shape(4, 8))
def constraints(p, b):
    x = lax.with_sharding_constraint(b["x"], NamedSharding(MESH, P("fsdp", None)))
    h = lax.with_sharding_constraint(
        x @ p[0], NamedSharding(MESH, P(P.UNCONSTRAINED, ("tp",))))
    return jax.nn.relu(h)


@form(shape(4, 6), x=shape(4, 6), n=shape(3, dtype=I32))
def complex_numbers(p, b):
    """A rotary embedding by complex numbers, and functions of these."""
    def value(w):
        pairs = w.reshape(4, 3, 2)
        angle = jnp.arange(4)[:, None] * 10.0 ** -jnp.arange(3)
        turned = lax.complex(pairs[..., 0], pairs[..., 1]) * jnp.exp(1j * angle)
        z = lax.complex(b["x"][:, :3], w[:, :3])
        y = jnp.exp(z * (0.5 + 0.25j)) / (z + 2j) - turned[::-1] ** 2
        y = jnp.where(b["x"][:, 3:] > 0, y, jnp.conj(y)).T.astype(jnp.complex64)
        y = jnp.concatenate([y[1:], y[b["n"]]]) * (y[:1] == y[:1])
        y = jnp.pad(y, ((0, 0), (1, 0)), constant_values=1j).cumsum(1)
        m = jnp.einsum("ij,kj->ik", y, jnp.conj(y))
        return (jnp.abs(m) + m.real.sum() * m.imag ** 2).sum()
    return jax.value_and_grad(value)(p[0])


@form(shape(6, 6), x=shape(4, 6))
def examples(p, b):
    """Loops that run for some examples longer than for others."""
    most = jnp.abs(p[0]).max()

    def run(row):
        return lax.while_loop(lambda c: c[1] < jnp.abs(row[0]) * 5 + most,
                              lambda c: (jnp.tanh(c[0] @ p[0]) + row, c[1] + 1),
                              (row, 0.0))
    return jax.vmap(run)(b["x"])
