/* config - what the command line asks of a memory node.
 * Layer: mn. */
#ifndef MN_CONFIG_H
#define MN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct mn_config {
	const char *listen;     /* addresses, comma separated */
	const char *eal;        /* DPDK's arguments, or NULL */
	uint64_t size;          /* bytes of pages */
	uint32_t page;          /* bytes of one */
	const char *memory;     /* what they lie in: a kind of mn/memory.h */
	bool overwrite;         /* a file there, whatever it holds */
	const char *pool;       /* name of the one to offer, or NULL: mn_pool_plan() */
	uint64_t lease_ms;      /* 0: the store's default */
	uint32_t id;            /* of the node; 0: random */
	uint32_t clients;       /* 0: the store's default */
	uint64_t quarantine_ms; /* of freed pages */
	bool yields;            /* unless there are no others */
	bool checksum;          /* of each page */
	const char *quota;      /* as in mn/tenants.h, or NULL */
	uint32_t workers;       /* 1 .. 64 */
	bool pin;               /* each worker to a processor of its own */
	const char *capture;    /* as in lend_config */
	uint64_t capture_limit;
	bool json;
	bool keep;           /* see mn/fdstore.h */
	const char *admin;   /* path of the socket, or NULL */
	const char *metrics; /* PORT or IP:PORT, or NULL */
	uint32_t drain_ms;   /* for replies under way when it leaves */
	const char *file;    /* that options were read from, or NULL */
	uint64_t given;      /* bit per option of the command line, by its place in the table */
};

/* Reads the command line; prints and exits where it asks for help or makes no sense. */
void mn_config_read(struct mn_config *config, int argc, char **argv);

#endif
