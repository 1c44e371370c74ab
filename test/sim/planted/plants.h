/* plants - bugs that are planted in this program's copy of the product, one at a time. They are
 * listed in core.txt, wire.txt and store.txt; plant.py makes the copy. Layer: test/sim. */
#ifndef TEST_SIM_PLANTED_PLANTS_H
#define TEST_SIM_PLANTED_PLANTS_H

struct lend_plant {
	const char *name, *file;
	const char *does;        /* what is broken */
	const char *seen;        /* oracle that finds it */
	const char *plan;        /* a plan that finds it at once, where seeds rarely do; or NULL */
	unsigned long long seed; /* seed that found it last, where few do; or 0 */
};
extern const struct lend_plant lend_plants[];
extern const unsigned lend_plants_n;
extern unsigned lend_planted; /* 1 .. lend_plants_n; 0: none of them */

#endif
