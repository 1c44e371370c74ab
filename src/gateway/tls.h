/* tls - sockets with or without TLS.
 *
 * Layer: gateway. Threads: the endpoint's. */
#ifndef LEND_GATEWAY_TLS_H
#define LEND_GATEWAY_TLS_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <sys/types.h>

/* Makes the settings of a server: TLS 1.2 or later, and HTTP/2 by ALPN. chain, key: PEM files.
 * Returns 0; -ENOENT: a file cannot be read, or is not a chain and its key; -ENOMEM. */
int tls_server(const char *chain, const char *key, SSL_CTX **settings);
/* Makes the settings of a client, which offers HTTP/2 by ALPN. ca: PEM file of the certificates to
 * trust; NULL: the system's. Returns 0; -ENOKEY: the file cannot be read; -ENOMEM. */
int tls_client(const char *ca, SSL_CTX **settings);
/* Begins TLS on a connected socket. server: the name, or IP address, that its certificate must
 * have; NULL: this end is the server. NULL: no memory. */
SSL *tls_begin(SSL_CTX *settings, int fd, const char *server);
/* Returns why a client's handshake failed; NULL: not for its server's certificate or protocols. */
const char *tls_why(SSL *tls);

/* Reads and writes as recv() and send() without waiting; tls NULL: plaintext. After -EAGAIN of a
 * write, *writable is whether to wait until the socket can be written to, instead of read.
 * Returns the bytes; 0: the peer has closed; or -errno. */
ssize_t tls_read(SSL *tls, int fd, void *to, size_t cap);
ssize_t tls_write(SSL *tls, int fd, const void *from, size_t len, bool *writable);
/* Ends the direction to the peer. */
void tls_shutdown(SSL *tls, int fd);

#endif
