/* graph - see graph.h. */
#include "apps/social/graph.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/common/options.h"
#include "util/rng.h"

enum { USERS_MAX = 1 << 24, EDGES_MAX = 1 << 28 };
static const double sigma = 0.77; /* deviation of a degree's logarithm */

static void take_edges(struct social_graph *graph, size_t edges)
{
	graph->edges = 0;
	graph->edge = malloc((edges + 1) * sizeof(*graph->edge));
	if (!graph->edge)
		app_die("no memory for a graph of %zu edges", edges);
}

static double next_unit(struct lend_rng *rng)
{
	return (double)(lend_rng_next(rng) >> 11) / (double)(UINT64_C(1) << 53);
}

/* Returns a number of the normal distribution (Box, Muller). */
static double next_normal(struct lend_rng *rng)
{
	double radius = sqrt(-2 * log(1 - next_unit(rng)));

	return radius * cos(2 * 3.14159265358979 * next_unit(rng));
}

/* Fills in the sums of the users' weights. */
static double *make_sums(uint32_t users, struct lend_rng *rng)
{
	double *sum = malloc((users + 1) * sizeof(*sum));

	if (!sum)
		app_die("no memory for %u users", users);
	sum[0] = 0;
	for (uint32_t i = 0; i < users; i++)
		sum[i + 1] = sum[i] + exp(sigma * next_normal(rng));
	return sum;
}

/* Chooses a user, with the probability of its weight. */
static uint32_t choose_user(const double *sum, uint32_t users, struct lend_rng *rng)
{
	double at = next_unit(rng) * sum[users];
	uint32_t low = 0, high = users - 1;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (sum[middle + 1] <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Marks a pair. Returns false: it was marked. */
static bool mark_pair(uint8_t *bits, uint32_t users, uint32_t a, uint32_t b)
{
	size_t at = a < b ? (size_t)a * users + b : (size_t)b * users + a;
	uint8_t bit = (uint8_t)(1u << at % 8);

	if (a == b || (bits[at / 8] & bit))
		return false;
	bits[at / 8] |= bit;
	return true;
}

void graph_make(struct social_graph *graph, uint32_t users, size_t edges, uint64_t seed)
{
	uint8_t *bits = calloc((size_t)users * users / 8 + 1, 1);
	struct lend_rng rng;
	double *sum;

	if (!bits || edges > (size_t)users * (users - 1) / 8)
		app_die("no graph of %zu edges among %u users", edges, users);
	lend_rng_seed(&rng, seed);
	sum = make_sums(users, &rng);
	take_edges(graph, edges);
	graph->users = users;
	while (graph->edges < edges) {
		uint32_t a = choose_user(sum, users, &rng), b = choose_user(sum, users, &rng);

		if (!mark_pair(bits, users, a, b))
			continue;
		graph->edge[graph->edges][0] = a;
		graph->edge[graph->edges++][1] = b;
	}
	free(sum);
	free(bits);
}

static FILE *open_file(const char *path, const char *ending)
{
	char name[512];
	FILE *file;

	(void)snprintf(name, sizeof(name), "%s.%s", path, ending);
	file = fopen(name, "re");
	if (!file)
		app_bad("--graph %s: %s: %s", path, name, strerror(errno));
	return file;
}

void graph_read(struct social_graph *graph, const char *path)
{
	FILE *nodes = open_file(path, "nodes"), *edges = open_file(path, "edges");
	size_t cap = 1 << 16;
	unsigned a, b;

	if (fscanf(nodes, "%u", &graph->users) != 1 || !graph->users || graph->users > USERS_MAX)
		app_bad("--graph %s: the first line of .nodes is the number of users", path);
	take_edges(graph, cap);
	while (fscanf(edges, "%u %u", &a, &b) == 2) {
		if (a >= graph->users || b >= graph->users || graph->edges == EDGES_MAX)
			app_bad("--graph %s: no such edge: %u %u", path, a, b);
		if (graph->edges == cap) {
			cap *= 2;
			graph->edge = realloc(graph->edge, cap * sizeof(*graph->edge));
			if (!graph->edge)
				app_die("no memory for a graph of %zu edges", cap);
		}
		graph->edge[graph->edges][0] = a;
		graph->edge[graph->edges++][1] = b;
	}
	fclose(nodes);
	fclose(edges);
}

void graph_free(struct social_graph *graph)
{
	free(graph->edge);
}
