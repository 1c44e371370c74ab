/* both_turn - the turns of a program whose sides take the same turns: its peer_turn().
 * Layer: apps/peers. */
#include "apps/peers/peer.h"

void peer_server_turn(void *server)
{
	peer_turn(server);
}

void peer_client_turn(void *client)
{
	peer_turn(client);
}
