/* both_turn - peer_turn() of the programs in which client and server take the same turns.
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
