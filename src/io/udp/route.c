#include "io/udp/route.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

socklen_t lend_udp_length(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static bool same_ip(const struct sockaddr_storage *a, const struct sockaddr *b)
{
	if (b == NULL || a->ss_family != b->sa_family)
		return false;
	if (a->ss_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
			      &((const struct sockaddr_in *)(const void *)b)->sin_addr, 4) == 0;
	return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, 16) == 0;
}

/* Finds the name of the interface that has this address. False: there is none. */
static bool interface_of(const struct sockaddr_storage *local, char name[IFNAMSIZ])
{
	struct ifaddrs *all = NULL, *i;

	if (getifaddrs(&all) != 0)
		return false;
	for (i = all; i != NULL && !same_ip(local, i->ifa_addr);)
		i = i->ifa_next;
	if (i != NULL)
		(void)snprintf(name, IFNAMSIZ, "%s", i->ifa_name);
	freeifaddrs(all);
	return i != NULL;
}

int lend_udp_interface_mtu(const struct sockaddr_storage *local)
{
	struct ifreq request = {0};
	int mtu = LEND_UDP_ETHERNET, fd;

	if (!interface_of(local, request.ifr_name))
		return mtu;
	fd = socket(local->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return mtu;
	if (ioctl(fd, SIOCGIFMTU, &request) == 0)
		mtu = request.ifr_mtu;
	(void)close(fd);
	return mtu;
}

/* Finds our address and the packet size on the route to a peer. False: there is no route. */
static bool ask_route(const struct sockaddr_storage *peer, struct sockaddr_storage *local, int *mtu)
{
	int fd = socket(peer->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*mtu), local_len = sizeof(*local);
	bool found;

	if (fd < 0)
		return false;
	found = connect(fd, (const void *)peer, lend_udp_length(peer)) == 0 &&
		getsockname(fd, (void *)local, &local_len) == 0;
	if (found && peer->ss_family == AF_INET)
		(void)getsockopt(fd, IPPROTO_IP, IP_MTU, mtu, &len);
	else if (found)
		(void)getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, mtu, &len);
	(void)close(fd);
	return found;
}

int lend_udp_route_mtu(const struct sockaddr_storage *peer)
{
	struct sockaddr_storage local;
	int mtu = LEND_UDP_ETHERNET;

	(void)ask_route(peer, &local, &mtu);
	return mtu;
}

bool lend_udp_route_is_local(const struct sockaddr_storage *peer)
{
	struct sockaddr_storage local;
	int mtu;

	return ask_route(peer, &local, &mtu) && same_ip(&local, (const void *)peer);
}

bool lend_udp_route_takes_gso(const struct sockaddr_storage *peer)
{
	struct sockaddr_storage local;
	char name[IFNAMSIZ], path[64];
	int mtu;

	if (!ask_route(peer, &local, &mtu))
		return false;
	if (same_ip(&local, (const void *)peer))
		return true;
	if (!interface_of(&local, name))
		return false;
	(void)snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
	return strcmp(name, "lo") == 0 || access(path, F_OK) == 0;
}
