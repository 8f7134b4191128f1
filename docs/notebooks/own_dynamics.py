# %% [markdown]
# # Your own dynamics, and derivatives through it
#
# A dynamics is a class with a `field`. It can be added to others, negated, saved and solved like those of the library.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import sphereflow as sf


class Pull(sf.Dynamics):
    """Tokens are drawn to a direction: x' = strength * P_x direction."""

    direction: jax.Array
    strength: jax.Array

    def field(self, t, x):
        return self.strength * (self.direction - (x @ self.direction)[:, None] * x)


north = Pull(jnp.array([0.0, 0.0, 1.0]), jnp.array(0.3))
run = sf.evolve(sf.SA(4.0) + north, sf.draw("uniform", 32, 3), 8.0)
run.player(height=560)

# %% [markdown]
# `sf.solve` is pure: it can be compiled, mapped and differentiated. How does the mean overlap at time 5 depend on
# $\beta$ and on the strength of the pull?

# %%
x0 = sf.draw("uniform", 32, 3)


def overlap(beta, strength):
    model = sf.SA(beta) + Pull(jnp.array([0.0, 0.0, 1.0]), strength)
    x = sf.solve(model, x0, jnp.array([0.0, 5.0]), tol=1e-9).final
    return jnp.mean(x @ x.T)


slopes = jax.jit(jax.grad(overlap, argnums=(0, 1)))(4.0, 0.3)
step = 1e-4
difference = (overlap(4.0 + step, 0.3) - overlap(4.0 - step, 0.3)) / (2 * step)
print("by jax.grad:", [float(each) for each in slopes], "by central differences:", float(difference))

# %% [markdown]
# Many starts at once: `vmap` over keys.


# %%
def length_of_mean(key):
    x = sf.solve(sf.SA(4.0), sf.draw("uniform", 16, 3, key), jnp.array([0.0, 5.0])).final
    return jnp.linalg.norm(jnp.mean(x, axis=0))


means = jax.vmap(length_of_mean)(jax.random.split(jax.random.key(0), 50))
print(f"{np.mean(means):.4f} +- {np.std(means, ddof=1) / np.sqrt(50):.4f}")
