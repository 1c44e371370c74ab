/* topology - which process talks to which, and the addresses for it over each carrier.
 *
 * A starter names its processes (itself is one of them), links each client to its servers, and
 * plans. Then it starts servers before their clients, and tells the net the address that each one's
 * ready line gave.
 *
 *	app_net_init(&net, APP_UDP);
 *	me = app_net_add(&net), hop = app_net_add(&net);
 *	app_net_link(&net, me, hop);
 *	app_net_plan(&net);
 *	...start hop with app_net_listen(&net, hop) and app_net_eal(&net, hop)...
 *	app_net_ready(&net, hop, address);
 *	lend_connect(ep, app_net_address(&net, me, hop), &session);
 *
 * Layer: apps. Threads: none. Lives by value in its owner; nothing to release.
 */
#ifndef APPS_COMMON_TOPOLOGY_H
#define APPS_COMMON_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

enum app_carrier { APP_SHM, APP_UDP, APP_DPDK_MEMIF, APP_DPDK_RING, APP_GIVEN };
/* "shm", "udp", "dpdk-memif", "dpdk-ring", and back; an address is APP_GIVEN: what each process
 * listens at, behind a blank EAL's arguments, with %p for the process's number from 1 in both:
 * "udp:[::1]:0", "verbs:rxe0@10.77.0.1:0", "dpdk:net_af_packet0@10.0.0.%p:0
 * --vdev=net_af_packet0,iface=veth%p". False for anything else. */
const char *app_carrier_name(enum app_carrier carrier);
bool app_carrier_parse(const char *text, enum app_carrier *carrier);
/* The one that reaches a server which somebody else started. */
enum app_carrier app_carrier_of(const char *address);

enum { APP_PROCS_MAX = 32, APP_LINKS_MAX = 96, APP_ADDRESS_MAX = 128, APP_EAL_MAX = 1536 };

struct app_net {
	enum app_carrier carrier;
	uint32_t page; /* of memory nodes that are started, in bytes; 0: theirs */
	unsigned procs, links;
	struct {
		unsigned char client, server;
	} link[APP_LINKS_MAX];                       /* over memif a link's place is its id */
	char listen[APP_PROCS_MAX][APP_ADDRESS_MAX]; /* "": a client alone */
	char eal[APP_PROCS_MAX][APP_EAL_MAX];        /* "": none needed */
	char address[APP_PROCS_MAX]
		    [APP_ADDRESS_MAX]; /* where it is reached, known when it is ready */
};

void app_net_init(struct app_net *net, enum app_carrier carrier);
/* A process's number, from 0. */
unsigned app_net_add(struct app_net *net);
void app_net_link(struct app_net *net, unsigned client, unsigned server);
/* Fills listen and eal of every process; names are unique to this run. */
void app_net_plan(struct app_net *net);
/* After the plan: proc is a process of its own, reached by shm where the carrier does not leave
 * this one. */
void app_net_apart(struct app_net *net, unsigned proc);
/* After the plan: proc is a memory node that shares its pages (pool:). */
void app_net_pool(struct app_net *net, unsigned proc);
/* For lend_config: NULL where the process needs none. */
const char *app_net_listen(const struct app_net *net, unsigned proc);
const char *app_net_eal(const struct app_net *net, unsigned proc);
void app_net_ready(struct app_net *net, unsigned proc, const char *address);
/* What client gives to lend_connect() or lend_mem_open() to reach server. */
const char *app_net_address(const struct app_net *net, unsigned client, unsigned server);

#endif
