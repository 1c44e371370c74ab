/* social - a social network of twelve services: what its handlers share.
 *
 * A service is a protobuf-c service. Its functions get a request as their closure_data, and never
 * wait: calls and store operations continue in a completion. The pattern of all of them:
 *
 *	struct greeting *g = social_state(request, sizeof(*g));
 *	social__a__x(social_call(request, SOCIAL_A), &a, got_a, g);    these two run in parallel
 *	social__b__y(social_call(request, SOCIAL_B), &b, got_b, g);
 *	...
 *	got_a(reply, g): keep what is needed; if (social_ended(request, SOCIAL_A, reply)) finish(g);
 *
 * social_ended() is true for the last of the calls, if all of them succeeded. If one failed, it
 * answers the request with that status. A closure may run before its call returns: several calls
 * are between social_begin() and social_ended_with(), which count as one more.
 *
 * Layer: apps. Threads: the endpoint's. One social network per process. */
#ifndef APPS_SOCIAL_SOCIAL_H
#define APPS_SOCIAL_SOCIAL_H

#include "lend/mem.h"
#include "social.pb-c.h"

/* Bytes of a user's name. */
enum { SOCIAL_NAME_MAX = 100 };

enum social_role {
	SOCIAL_UNIQUE_ID,
	SOCIAL_TEXT,
	SOCIAL_URL_SHORTEN,
	SOCIAL_USER_MENTION,
	SOCIAL_USER,
	SOCIAL_MEDIA,
	SOCIAL_COMPOSE_POST,
	SOCIAL_POST_STORAGE,
	SOCIAL_USER_TIMELINE,
	SOCIAL_HOME_TIMELINE,
	SOCIAL_SOCIAL_GRAPH,
	SOCIAL_GATEWAY,  /* HTTP */
	SOCIAL_WEB,      /* forwards calls, as a tier of web servers would */
	SOCIAL_BALANCER, /* forwards calls to SOCIAL_WEB */
	SOCIAL_ROLES
};
/* Names of the roles, and NULL. */
extern const char *const social_role_names[];
/* Returns the descriptor of a role's service; NULL: it has none. */
const ProtobufCServiceDescriptor *social_descriptor(enum social_role role);

/* How texts and media travel. */
enum social_by { SOCIAL_BY_VALUE, SOCIAL_BY_REF, SOCIAL_BY_AUTO };
/* Where services store: in LMDB, or in redis, with memcached as cache. */
enum social_stores { SOCIAL_LMDB, SOCIAL_REAL };

/* Counters of a role in this process. */
#define SOCIAL_COUNTERS(X)                                                                         \
	X(requests, "requests served")                                                             \
	X(errors, "requests answered with another status than OK")                                 \
	X(calls, "calls made for requests")                                                        \
	X(wait_ns, "ns that requests waited for calls, stores and the memory node")                \
	X(call_ns, "ns that requests waited for calls")                                            \
	X(store_ops, "operations on stores")                                                       \
	X(store_ns, "ns inside the functions of stores")                                           \
	X(blob_tx_bytes, "bytes of texts and media put on the memory node")                        \
	X(blob_rx_bytes, "bytes of texts and media read from the memory node")                     \
	X(lost_refs, "references whose bytes the memory node does not have")
struct social_counters {
#define X(name, meaning) uint64_t name;
	SOCIAL_COUNTERS(X)
#undef X
};
/* Returns the i-th counter of a role. Returns false: there are no more. */
bool social_counter(enum social_role role, unsigned i, const char **name, const char **meaning,
		    uint64_t *value);

/* How calls reach the services: Lend, or another RPC library. */
struct social_transport {
	/* Serves a service: its invoke() runs requests. Returns 0 or -errno. */
	int (*serve)(ProtobufCService *service);
	/* Returns a client of a role for one call of a request's functions, which have closure_data
	 * (NULL: none); NULL: not reachable now. */
	ProtobufCService *(*client)(enum social_role role, void *closure_data);
	/* Returns text and status of the call to a role, while its closure runs; without a client:
	 * UNAVAILABLE. */
	const char *(*status)(enum social_role role, enum lend_status *status);
	void (*fail)(void *closure_data, enum lend_status status, const char *why);
	/* Answers with an encoded message. Takes bytes, of lend_malloc_shared(). */
	void (*answer)(void *closure_data, void *bytes, size_t len);
	/* Calls a method and answers with its reply's bytes, or its status. Adds the time that
	 * this takes to call_ns. */
	void (*forward)(enum social_role role, unsigned method, const ProtobufCMessage *input,
			void *closure_data, uint64_t *call_ns);
};
extern const struct social_transport social_over_lend;

/* Returns the counters of a request's role. */
struct social_counters *social_counters_of(void *request);

/* State that the services of this process share. */
struct social {
	struct lend_ep *ep;
	struct lend_mem *mem; /* NULL: no memory node */
	const char *dir;      /* addresses of roles, and stores */
	const struct social_transport *transport;
	enum social_by by;
	bool embed;    /* posts contain their media */
	bool over_shm; /* calls go over shared memory */
	enum social_stores stores;
	struct social_counters counters[SOCIAL_ROLES];
};
extern struct social social;

/* Returns memory that lives until the request is answered; of social_state() it is zeroed. */
void *social_memory(void *request, size_t size);
void *social_state(void *request, size_t size);
/* Returns a copy of a message with all its bytes, which lives as social_state(); of NULL, NULL. */
void *social_copy(void *request, const void *message);
/* Returns a copy of a text, which lives as social_state(). */
char *social_text_copy(void *request, const char *text, size_t len);

/* Returns a key of a store, which lives as social_state(). */
const char *social_key(void *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns the client for one call on behalf of a request. */
ProtobufCService *social_call(void *request, enum social_role role);
/* Ends a call of social_call() in its closure. Returns true: all calls and operations of the
 * request have ended with success. If all have ended and one failed, it fails the request. */
bool social_ended(void *request, enum social_role role, const void *reply);
/* The same for an operation on a store or a memory node: begins one; ends one with its status. */
void social_begin(void *request);
bool social_ended_with(void *request, enum lend_status status, const char *why);
/* Answers a request, as its closure does; with an Empty message. */
void social_answer(void *request, const void *reply);
void social_answer_empty(void *request);
/* Answers a request with another status than OK. */
void social_fail(void *request, enum lend_status status, const char *why);
/* Runs undo(state) before social_fail() answers. */
void social_on_fail(void *request, void (*undo)(void *state), void *state);
/* Answers a request with a message that is encoded already. Takes bytes, of lend_malloc_shared().
 */
void social_answer_bytes(void *request, void *bytes, size_t len);
/* Answers a request with the reply of a call: its bytes are not decoded. */
void social_forward(void *request, enum social_role role, unsigned method,
		    const ProtobufCMessage *input);

/* Begins a request that is no call, such as one of HTTP. fail(arg) answers it in social_fail();
 * social_end() ends it after an answer. */
void *social_root(enum social_role role,
		  void (*fail)(void *arg, enum lend_status status, const char *why), void *arg);
void social_end(void *request);

/* Serves a role in this process. app_die() if it cannot. */
void social_serve(enum social_role role);
/* Returns whether bytes of this length go by reference. */
bool social_by_ref(size_t len);
/* Fills text with random letters and digits, and ends it. */
void social_random_text(char *text, size_t len);
/* Returns a session to a role over Lend, opened when it is needed, and again after its process was
 * restarted; id 0: not reachable now. */
lend_session social_session(enum social_role role);

/* Returns a new id: 11 bits machine, 40 bits milliseconds since 2018, 12 bits counter. */
int64_t social_new_id(void);
/* Returns milliseconds since the Unix epoch. */
int64_t social_now_ms(void);

/* The services. */
ProtobufCService *social_unique_id(void);
ProtobufCService *social_text(void);
ProtobufCService *social_url_shorten(void);
ProtobufCService *social_user_mention(void);
ProtobufCService *social_user(void);
ProtobufCService *social_media(void);
ProtobufCService *social_compose_post(void);
ProtobufCService *social_post_storage(void);
ProtobufCService *social_user_timeline(void);
ProtobufCService *social_home_timeline(void);
ProtobufCService *social_social_graph(void);

#endif
