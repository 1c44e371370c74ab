/* seed - fills a social network before a measurement, as the original's init script: users, edges,
 * posts.
 *
 * Layer: apps. Threads: the endpoint's. */
#ifndef APPS_SOCIAL_SEED_H
#define APPS_SOCIAL_SEED_H

#include "apps/social/graph.h"

struct seed_plan {
	const struct social_graph *graph;
	uint32_t posts_min, posts_max; /* posts of each user: a uniform number */
	uint32_t text;                 /* bytes of a text, without mentions and URLs */
	uint32_t media;                /* bytes of a medium in each post; 0: ids only */
	uint64_t seed;
};

/* Fills it, and waits until all is done. Returns the number of posts. app_die() if a call fails. */
uint64_t seed_network(const struct seed_plan *plan);

#endif
