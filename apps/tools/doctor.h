/* doctor - what lend doctor's files share: a visit's findings. Layer: apps. Threads: one. */
#ifndef APPS_TOOLS_DOCTOR_H
#define APPS_TOOLS_DOCTOR_H

#include <stdbool.h>

enum { DOCTOR_FOUND_MAX = 320, DOCTOR_CHECKS_MAX = 48 };

struct finding {
	char name[48];
	bool ok;
	char found[DOCTOR_FOUND_MAX];
	const char *mend; /* of the lack; not said when ok */
};

struct visit {
	struct finding finding[DOCTOR_CHECKS_MAX];
	unsigned n;
	bool no_endpoint; /* none can be opened, whatever its carrier */
};

/* A new finding, of which nothing is said yet. */
struct finding *doctor_note(struct visit *v, const char *name, bool ok, const char *mend);
/* Opens a carrier in a child process and notes how that went. eal: NULL, or DPDK's arguments. */
void doctor_carrier(struct visit *v, const char *name, const char *listen, const char *eal,
		    const char *mend);
/* The same for a carrier of DPDK. mend is for other failures than a module that is missing. */
void doctor_dpdk(struct visit *v, const char *name, const char *listen, const char *eal,
		 const char *mend);
/* The first line of a small file; false without one. */
bool doctor_first_line(const char *path, char *text, int cap);

/* doctor_devices.c: rights, limits and devices of carriers that need some. */
void doctor_devices(struct visit *v);

#endif
