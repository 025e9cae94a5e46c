"""Detection of TLS on a port."""

import asyncio
import ssl


async def accepts_tls(address: tuple[str, int], timeout_s: float) -> bool:
    """Return True if the process at `address` completes a TLS handshake.

    Useful after it closed a plain connection without a response: it cannot read plain bytes.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    host, port = address
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, host, port, ssl=context
            )
    except (OSError, TimeoutError):
        return False
    transport.abort()
    return True
