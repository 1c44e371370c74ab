/* iceoryx2 - the description of iceoryx2.rs. Layer: apps/peers. */
#include "apps/peers/peer.h"

const struct peer peer_this = {"iceoryx2", {{.name = "shm"}}, false};
