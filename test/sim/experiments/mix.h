/* mix - how long messages are: the five mixes of the Homa paper. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_MIX_H
#define SIM_EXPERIMENTS_MIX_H

#include "util/rng.h"

struct mix;

/* "w1" to "w5"; NULL: there is no such. */
const struct mix *mix_named(const char *name);
const char *mix_name(const struct mix *mix);
uint32_t mix_max(const struct mix *mix);
/* So long that a share q of all messages is no longer: in [0, 1]. */
uint32_t mix_quantile(const struct mix *mix, double q);
uint32_t mix_draw(const struct mix *mix, struct lend_rng *rng);
/* Of what each length costs. */
double mix_mean(const struct mix *mix, double (*cost)(uint32_t bytes));

#endif
