/* Goal: generated graphs have the shape of socfb-Reed98: degree median 29, 99th percentile 157.
 * Method: the degrees of some seeds. Covers: apps/social/graph.c */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "apps/social/graph.h"

static int compare_degrees(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

Test(graph, generated__seeds__degrees_of_reed98)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct social_graph graph;
		int degree[GRAPH_USERS] = {0};

		graph_make(&graph, GRAPH_USERS, GRAPH_EDGES, seed);
		cr_assert_eq(graph.edges, GRAPH_EDGES);
		for (size_t i = 0; i < graph.edges; i++) {
			cr_assert_neq(graph.edge[i][0], graph.edge[i][1]);
			degree[graph.edge[i][0]]++;
			degree[graph.edge[i][1]]++;
		}
		qsort(degree, GRAPH_USERS, sizeof(*degree), compare_degrees);
		cr_expect(degree[GRAPH_USERS / 2] >= 26 && degree[GRAPH_USERS / 2] <= 32,
			  "median %d", degree[GRAPH_USERS / 2]);
		cr_expect(degree[GRAPH_USERS * 99 / 100] >= 130 &&
			      degree[GRAPH_USERS * 99 / 100] <= 190,
			  "p99 %d", degree[GRAPH_USERS * 99 / 100]);
		graph_free(&graph);
	}
}

Test(graph, generated__twice__same)
{
	struct social_graph a, b;

	graph_make(&a, 100, 500, 7);
	graph_make(&b, 100, 500, 7);
	cr_assert_arr_eq(a.edge, b.edge, 500 * sizeof(*a.edge));
	graph_free(&a);
	graph_free(&b);
}
