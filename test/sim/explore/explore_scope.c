#include "sim/explore/explore_scope.h"

/* Number of faults, and of datagrams that may overtake each other. */
#define FAULTS(drops_, dups_, ticks_, window_)                                                     \
	.drops = (drops_), .dups = (dups_), .ticks = (ticks_), .window = (window_)
/* A client and a server. */
#define PAIR(slots_, inflight_)       .nodes = 2, .slots = (slots_), .inflight = (inflight_)
#define BYTES(mtu_, request_, reply_) .mtu = (mtu_), .request = (request_), .reply = (reply_)
#define SHORT                         BYTES(256, 40, 24)
#define ASKS(connects_, calls_, cancels_)                                                          \
	.connects = (connects_), .calls = (calls_), .cancels = (cancels_)
/* n crashes of these nodes: a bit per node. */
#define DEATHS(n, nodes) .crashes = (n), .crash = (nodes)
/* One or two clients and a memory node. */
#define MEMORY(n) .nodes = (n), .slots = 2, .inflight = 4, .mtu = 288, .up = true

const struct ex_scope ex_scopes[] = {
    {"call", "connect, and one call", FAULTS(1, 1, 1, 3), PAIR(1, 0), SHORT, ASKS(1, 1, 0)},
    {"cancel", "a call that may be cancelled at any time", FAULTS(1, 1, 2, 3), PAIR(1, 0), SHORT,
     ASKS(1, 1, 1), .up = true},
    {"slot", "two calls of one slot, of which one may be cancelled: reuse after GONE",
     FAULTS(1, 1, 1, 3), PAIR(1, 2), SHORT, ASKS(1, 2, 1), .up = true},
    {"pair", "two calls at once", FAULTS(1, 0, 1, 3), PAIR(2, 0), SHORT, ASKS(1, 2, 0)},
    {"deadline", "two calls with deadlines that may pass first", FAULTS(1, 1, 2, 3), PAIR(1, 2),
     SHORT, ASKS(1, 2, 0), .up = true, .deadline_us = 400},
    {"long", "a request of three fragments and a reply of two", FAULTS(1, 0, 1, 3), PAIR(1, 0),
     BYTES(256, 400, 200), ASKS(1, 1, 0), .up = true},
    {"memory", "two calls of two fragments with memory for one; one may be cancelled",
     FAULTS(0, 0, 1, 2), PAIR(2, 0), BYTES(256, 200, 200), ASKS(1, 2, 0), .up = true},
    {"need", "messages that need memory from the program", FAULTS(1, 0, 0, 2), PAIR(1, 0),
     BYTES(2144, 5000, 5000), ASKS(1, 1, 1), .up = true},
    {"restart", "the server crashes and restarts during a call, or the client does",
     FAULTS(1, 0, 0, 3), PAIR(1, 2), SHORT, ASKS(2, 2, 0), DEATHS(1, 3)},
    {"close", "a session is closed during a call, and another one is opened", FAULTS(1, 0, 0, 3),
     PAIR(1, 2), SHORT, ASKS(2, 2, 0), .closes = 1},
    {"credit", "two long requests that share the credit of one session", FAULTS(0, 0, 0, 2),
     PAIR(2, 0), BYTES(2144, 5000, 24), ASKS(1, 2, 0), .up = true, .supply = 2},
    {"lossless", "calls of several fragments over a lossless carrier, memory for one",
     FAULTS(0, 0, 2, 1), PAIR(2, 0), BYTES(256, 400, 200), ASKS(1, 2, 1), .lossless = true},
    {"put", "put, get and release; an unknown outcome is forgotten, or the operation retried",
     FAULTS(0, 1, 0, 3), MEMORY(2), ASKS(1, 0, 1), .holders = 1,
     .mem = {{EX_MEM_HELLO, EX_MEM_PUT_OWNED, EX_MEM_GET, EX_MEM_RELEASE}}},
    {"lease", "a lease that ends while its client lives", FAULTS(0, 0, 2, 3), MEMORY(2),
     ASKS(1, 0, 1), .holders = 1, .mem = {{EX_MEM_HELLO, EX_MEM_PUT_OWNED}}},
    {"adopt", "one client transfers to another, either may crash", FAULTS(0, 0, 1, 2), MEMORY(3),
     ASKS(1, 0, 0), DEATHS(1, 3), .holders = 1,
     .mem = {{EX_MEM_HELLO, EX_MEM_PUT, EX_MEM_PASS},
	     {EX_MEM_HELLO, EX_MEM_ADOPT, EX_MEM_RELEASE}}},
    {"race", "two clients compete for one grant, and FORGET of it", FAULTS(0, 0, 0, 2), MEMORY(3),
     ASKS(0, 0, 1), .holders = 1,
     .mem = {{EX_MEM_HELLO, EX_MEM_PUT, EX_MEM_PASS, EX_MEM_ADOPT},
	     {EX_MEM_HELLO, EX_MEM_ADOPT, EX_MEM_RELEASE}}},
    {"grant", "a holder grants its hold, FORGET may undo it", FAULTS(0, 0, 0, 2), MEMORY(3),
     ASKS(0, 0, 1), .holders = 1,
     .mem = {{EX_MEM_HELLO, EX_MEM_PUT_OWNED, EX_MEM_GRANT, EX_MEM_PASS},
	     {EX_MEM_HELLO, EX_MEM_ADOPT, EX_MEM_RELEASE}}},
    {"share", "two clients hold the same, one adopts it twice, each releases it",
     FAULTS(0, 0, 0, 2), MEMORY(3), ASKS(0, 0, 1), .holders = 2,
     .mem = {{EX_MEM_HELLO, EX_MEM_SHARE, EX_MEM_PASS, EX_MEM_RELEASE},
	     {EX_MEM_HELLO, EX_MEM_ADOPT, EX_MEM_ADOPT, EX_MEM_RELEASE}}},
    {"stale", "a reference to freed memory that another object now uses", FAULTS(0, 1, 1, 3),
     MEMORY(3), .holders = 1,
     .mem = {{EX_MEM_HELLO, EX_MEM_PUT_OWNED, EX_MEM_PASS, EX_MEM_RELEASE, EX_MEM_PUT_OWNED},
	     {EX_MEM_HELLO, EX_MEM_GET}}},
    {"node", "the memory node crashes and restarts", FAULTS(0, 0, 0, 3), MEMORY(2), ASKS(2, 0, 1),
     DEATHS(1, 2), .holders = 1, .mem = {{EX_MEM_HELLO, EX_MEM_PUT_OWNED, EX_MEM_RELEASE}}},
};
const uint32_t ex_n_scopes = sizeof(ex_scopes) / sizeof(ex_scopes[0]);
