#include "sim/explore_prog.h"
void ex_mem_open(struct ex_node *n)
{
	(void)n;
}
void ex_mem_start(struct ex_node *n)
{
	(void)n;
}
void ex_mem_close(struct ex_node *n)
{
	(void)n;
}
void ex_mem_op(struct ex_node *n)
{
	(void)n;
}
void ex_mem_passed(struct ex_node *n, const struct ex_dgram *g)
{
	(void)n;
	(void)g;
}
void ex_mem_end(struct ex_node *n, const struct lend_event *e)
{
	(void)n;
	(void)e;
}
void ex_mem_serve(struct ex_node *n, const struct lend_event *e)
{
	(void)n;
	(void)e;
}
void ex_mem_attr(struct ex_node *n, struct ex_attr *a)
{
	(void)n;
	(void)a;
}
bool ex_mem_wants(const struct ex_node *n)
{
	(void)n;
	return false;
}
#include "sim/explore_canon.h"
void ex_store_canon(struct lend_store *store, lend_ns now)
{
	(void)store;
	(void)now;
}
uint32_t ex_store_extents(struct lend_store *store, struct ex_extent e[EX_EXTENTS])
{
	(void)store;
	(void)e;
	return 0;
}
