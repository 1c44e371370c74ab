/* doctor - the findings of a check of the machine, shared by lend doctor's files. Layer: apps.
 * Threads: one. */
#ifndef APPS_TOOLS_DOCTOR_H
#define APPS_TOOLS_DOCTOR_H

#include <stdbool.h>

enum { DOCTOR_FOUND_MAX = 640, DOCTOR_CHECKS_MAX = 48 };

struct finding {
	char name[48];
	bool ok;
	char found[DOCTOR_FOUND_MAX];
	const char *fix; /* how to fix the lack; not printed when ok */
};

struct visit {
	struct finding finding[DOCTOR_CHECKS_MAX];
	unsigned n;
	bool no_endpoint; /* no endpoint can be opened, on any carrier */
};

/* Adds a finding with an empty text. */
struct finding *doctor_note(struct visit *v, const char *name, bool ok, const char *fix);
/* Opens a carrier in a child process and records the result. eal: NULL, or DPDK's arguments. */
void doctor_carrier(struct visit *v, const char *name, const char *listen, const char *eal,
		    const char *fix);
/* Like doctor_carrier(), for a carrier of DPDK. When a DPDK module is missing, the fix is to
 * install its package. */
void doctor_dpdk(struct visit *v, const char *name, const char *listen, const char *eal,
		 const char *fix);
/* Reads the first line of a small file; returns false when there is none. */
bool doctor_first_line(const char *path, char *text, int cap);

/* Check the keys; and encryption: its cost, and the levels of sessions (sealed/doctor_sealing.c).
 */
void doctor_keys(struct visit *v);
void doctor_sealing(struct visit *v);
/* Checks rights, limits and devices of carriers that need some (doctor_devices.c). */
void doctor_devices(struct visit *v);
/* Checks whether lend grpc-run carries the calls of this machine's gRPC (grpc_run.c). */
void doctor_grpc(struct visit *v);

#endif
