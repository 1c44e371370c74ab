/* mix - distributions of message lengths: the five mixes of the Homa paper. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_MIX_H
#define SIM_EXPERIMENTS_MIX_H

#include "util/rng.h"

struct mix;

/* name: "w1" to "w5"; NULL: unknown. */
const struct mix *mix_named(const char *name);
const char *mix_name(const struct mix *mix);
uint32_t mix_max(const struct mix *mix);
/* Returns the length at quantile q, in [0, 1]. */
uint32_t mix_quantile(const struct mix *mix, double q);
uint32_t mix_draw(const struct mix *mix, struct lend_rng *rng);
/* Returns the mean of cost(length) over the mix. */
double mix_mean(const struct mix *mix, double (*cost)(uint32_t bytes));

#endif
