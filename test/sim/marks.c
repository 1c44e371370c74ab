#include "sim/marks.h"

static const struct {
	const char *name, *text;
} mark[] = {
#define X(name, text) {#name, text},
    SIM_MARKS(X)
#undef X
};
_Static_assert(sizeof(struct sim_marks) == sizeof(mark) / sizeof(mark[0]) * sizeof(uint64_t),
	       "only counters");

const char *sim_marks_name(size_t i, const char **text)
{
	if (i >= SIM_MARKS_N)
		return NULL;
	*text = mark[i].text;
	return mark[i].name;
}
