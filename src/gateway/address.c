/* address - addresses of HTTP/2 over TCP. See address.h. */
#include "gateway/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEAD_MS = 20000 }; /* until a peer that does not answer is given up */

int h2_address_find(const char *text, bool listens, struct addrinfo **found, char host[H2_HOST_MAX])
{
	const char *colon = strrchr(text, ':');
	struct addrinfo hints = {.ai_flags = (listens ? AI_PASSIVE : 0) | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	size_t len = colon ? (size_t)(colon - text) : 0;
	char *end;

	if (!colon || len >= H2_HOST_MAX || strtoul(colon + 1, &end, 10) > UINT16_MAX || *end ||
	    end == colon + 1 || (!len && !listens))
		return -EINVAL;
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	return getaddrinfo(len ? host : NULL, colon + 1, &hints, found) ? -ENOENT : 0;
}

void h2_socket_options(int fd)
{
	int on = 1, dead = DEAD_MS;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof(dead));
}
