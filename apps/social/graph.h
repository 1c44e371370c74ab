/* graph - friends: generated, or read from the original's files.
 * Layer: apps. Threads: one. */
#ifndef APPS_SOCIAL_GRAPH_H
#define APPS_SOCIAL_GRAPH_H

#include <stddef.h>
#include <stdint.h>

struct social_graph {
	uint32_t users; /* ids 0 to users - 1 */
	size_t edges;
	uint32_t (*edge)[2]; /* both ends follow each other */
};

/* The size of socfb-Reed98. */
enum { GRAPH_USERS = 962, GRAPH_EDGES = 18812 };

/* Makes a graph with the shape of socfb-Reed98: degrees of a log-normal distribution. edges is at
 * most a quarter of all pairs. app_die() without memory. */
void graph_make(struct social_graph *graph, uint32_t users, size_t edges, uint64_t seed);
/* Reads PATH.nodes, whose first line is the number of users, and PATH.edges, with lines "A B".
 * app_bad() for a file that cannot be read. */
void graph_read(struct social_graph *graph, const char *path);
void graph_free(struct social_graph *graph);

#endif
