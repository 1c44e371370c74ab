#include "sim/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	uint64_t calm;
} field[] = {
#define X(name, calm, text) {#name, calm},
    SIM_PLAN(X)
#undef X
};
enum { FIELDS = sizeof(field) / sizeof(field[0]) };
_Static_assert(sizeof(struct sim_plan) == FIELDS * sizeof(uint64_t), "only numbers");

const char *sim_plan_field(struct sim_plan *plan, size_t i, uint64_t **value, uint64_t *calm)
{
	if (i >= FIELDS)
		return NULL;
	*value = (uint64_t *)plan + i;
	*calm = field[i].calm;
	return field[i].name;
}

struct sim_plan sim_plan_calm(void)
{
	return (struct sim_plan){
#define X(name, calm, text) .name = calm,
	    SIM_PLAN(X)
#undef X
	};
}

void sim_plan_write(const struct sim_plan *plan, char text[SIM_PLAN_TEXT])
{
	int at = snprintf(text, SIM_PLAN_TEXT, "seed=%llu", (unsigned long long)plan->seed);

	for (size_t i = 1; i < FIELDS; i++) {
		uint64_t value = ((const uint64_t *)plan)[i];

		if (value != field[i].calm && at < SIM_PLAN_TEXT - 64)
			at += snprintf(text + at, (size_t)(SIM_PLAN_TEXT - at), " %s=%llu",
				       field[i].name, (unsigned long long)value);
	}
}

static bool set_field(struct sim_plan *plan, const char *name, size_t len, uint64_t value)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (strlen(field[i].name) == len && memcmp(field[i].name, name, len) == 0) {
			((uint64_t *)plan)[i] = value;
			return true;
		}
	return false;
}

bool sim_plan_read(const char *text, struct sim_plan *plan)
{
	*plan = sim_plan_calm();
	for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
		size_t len = strcspn(text, "= \t\n");
		char *end;
		uint64_t value;

		if (text[len] != '=')
			return false;
		value = strtoull(text + len + 1, &end, 0);
		if (end == text + len + 1 || (*end && !strchr(" \t\n", *end)) ||
		    !set_field(plan, text, len, value))
			return false;
		text = end;
	}
	return true;
}
