/* ray - Ray's side of the comparison: what ray.py.in and ray.c call of each other.
 * Layer: apps/peers. Threads: one per process. */
#ifndef APPS_PEERS_RAY_H
#define APPS_PEERS_RAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions in Python; they print the reason of a failure. */
struct peer_ray {
	/* Starts a node with room for this many bytes and writes its address, if that is empty;
	 * connects to it. */
	bool (*open)(uint64_t bytes, char *address, size_t cap);
	/* Puts the bytes, and drops what was put for slot before. Writes a reference of at most cap
	 * bytes; returns its length, or 0. */
	uint64_t (*put)(unsigned slot, const void *bytes, size_t len, void *reference, size_t cap);
	/* Returns the bytes of a reference in the object store, until the next call for slot; or
	 * NULL. */
	void *(*get)(unsigned slot, const void *reference, size_t len);
	void (*close)(void);
};

/* Runs the comparison's program with these functions. Returns its exit code. */
__attribute__((visibility("default"))) int peer_ray_run(const struct peer_ray *calls, int argc,
							char **argv);

#endif
