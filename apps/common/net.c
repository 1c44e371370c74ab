/* net - see net.h. */
#include "apps/common/net.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/check.h"

static const char *const names[] = {
    [APP_SHM] = "shm",
    [APP_UDP] = "udp",
    [APP_DPDK_MEMIF] = "dpdk-memif",
    [APP_DPDK_RING] = "dpdk-ring",
};

const char *app_carrier_name(enum app_carrier carrier)
{
	return names[carrier];
}

bool app_carrier_parse(const char *text, enum app_carrier *carrier)
{
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]))
			continue;
		*carrier = (enum app_carrier)i;
		return true;
	}
	return false;
}

void app_net_init(struct app_net *net, enum app_carrier carrier)
{
	memset(net, 0, sizeof(*net));
	net->carrier = carrier;
}

unsigned app_net_add(struct app_net *net)
{
	LEND_CHECK(net->procs < APP_PROCS_MAX);
	return net->procs++;
}

void app_net_link(struct app_net *net, unsigned client, unsigned server)
{
	LEND_CHECK(net->links < APP_LINKS_MAX && client < net->procs && server < net->procs);
	net->link[net->links].client = (unsigned char)client;
	net->link[net->links].server = (unsigned char)server;
	net->links++;
}

/* Only shm wants a name chosen here; elsewhere port 0 lets the carrier choose. */
static void plan_server(struct app_net *net, unsigned proc)
{
	static unsigned run;
	char *listen = net->listen[proc];

	switch (net->carrier) {
	case APP_SHM:
		snprintf(listen, APP_ADDRESS_MAX, "shm:run-%d-%u", (int)getpid(), run++);
		break;
	case APP_UDP:
		snprintf(listen, APP_ADDRESS_MAX, "udp:127.0.0.1:0");
		break;
	case APP_DPDK_MEMIF:
		snprintf(listen, APP_ADDRESS_MAX, "dpdk:memif@127.0.0.1:0");
		break;
	case APP_DPDK_RING:
		snprintf(listen, APP_ADDRESS_MAX, "dpdk:ring@127.0.0.1:0");
		break;
	}
}

void app_net_plan(struct app_net *net)
{
	for (unsigned i = 0; i < net->links; i++)
		if (!net->listen[net->link[i].server][0])
			plan_server(net, net->link[i].server);
}

const char *app_net_listen(const struct app_net *net, unsigned proc)
{
	return net->listen[proc][0] ? net->listen[proc] : NULL;
}

const char *app_net_eal(const struct app_net *net, unsigned proc)
{
	return net->eal[proc][0] ? net->eal[proc] : NULL;
}

void app_net_ready(struct app_net *net, unsigned proc, const char *address)
{
	snprintf(net->address[proc], APP_ADDRESS_MAX, "%s", address);
}

const char *app_net_address(const struct app_net *net, unsigned client, unsigned server)
{
	(void)client; /* the same for every client: carriers make a link per pair by themselves */
	LEND_CHECK(net->address[server][0]);
	return net->address[server];
}
