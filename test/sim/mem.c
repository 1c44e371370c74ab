#include "sim/mem.h"

void sim_mem_open(struct sim *sim)
{
	(void)sim;
}

void sim_mem_close(struct sim *sim)
{
	(void)sim;
}

void sim_mem_event(struct sim *sim, uint32_t actor)
{
	(void)sim, (void)actor;
}

void sim_mem_birth(struct sim *sim, uint32_t node)
{
	(void)sim, (void)node;
}

void sim_mem_crash(struct sim *sim, uint32_t node)
{
	(void)sim, (void)node;
}

void sim_mem_session(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	(void)sim, (void)node, (void)e;
}

void sim_mem_turn(struct sim *sim, uint32_t node)
{
	(void)sim, (void)node;
}

lend_ns sim_mem_deadline(struct sim *sim, uint32_t node)
{
	(void)sim, (void)node;
	return LEND_NEVER;
}

uint32_t sim_mem_need(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	(void)sim, (void)node, (void)e;
	return 0;
}

void sim_mem_request(struct sim *sim, uint32_t node, const struct lend_event *e)
{
	(void)node, (void)e;
	sim_fail(sim, "a memory operation, and nobody to serve it");
}

void sim_mem_reply_end(struct sim *sim, uint32_t node, uint32_t buf)
{
	(void)sim, (void)node, (void)buf;
}

void sim_mem_end(struct sim *sim, uint32_t node, const struct sim_call *call,
		 const struct lend_event *e, const void *data)
{
	(void)sim, (void)node, (void)call, (void)e, (void)data;
}

void sim_mem_audit(struct sim *sim)
{
	(void)sim;
}

const char *sim_mem_unfinished(struct sim *sim)
{
	(void)sim;
	return NULL;
}
