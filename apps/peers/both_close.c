/* both_close - closes the sides of a program that closes both alike: by its peer_close().
 * Layer: apps/peers. */
#include "apps/peers/peer.h"

void peer_server_close(void *server)
{
	peer_close(server);
}

void peer_client_close(void *client)
{
	peer_close(client);
}
