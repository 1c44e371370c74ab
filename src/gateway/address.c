/* address - addresses of HTTP/2 over TCP. See address.h. */
#include "gateway/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEAD_MS = 20000 }; /* until a peer that does not answer is given up */

int h2_address_split(const char *text, char host[H2_HOST_MAX], char port[H2_PORT_MAX])
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char *end;

	if (!colon || len >= H2_HOST_MAX || strlen(colon + 1) >= H2_PORT_MAX ||
	    strtoul(colon + 1, &end, 10) > UINT16_MAX || *end || end == colon + 1)
		return -EINVAL;
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	strcpy(port, colon + 1);
	return 0;
}

int h2_address_listen(const char *text, struct addrinfo **found)
{
	const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	char host[H2_HOST_MAX], port[H2_PORT_MAX];

	if (h2_address_split(text, host, port) < 0)
		return -EINVAL;
	return getaddrinfo(*host ? host : NULL, port, &hints, found) ? -EINVAL : 0;
}

int h2_address_numeric(const char *text, struct addrinfo **found, char host[H2_HOST_MAX])
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				       .ai_socktype = SOCK_STREAM};
	char port[H2_PORT_MAX];

	if (h2_address_split(text, host, port) < 0 || !*host)
		return -EINVAL;
	if (getaddrinfo(host, port, &hints, found))
		*found = NULL;
	return 0;
}

void h2_socket_options(int fd)
{
	int on = 1, dead = DEAD_MS;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof(dead));
}
