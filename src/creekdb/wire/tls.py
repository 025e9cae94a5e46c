"""Does who listens somewhere encrypt?"""

import asyncio
import ssl


async def accepts_tls(address: tuple[str, int], patience: float) -> bool:
    """Does who listens there speak TLS? To be asked when it leaves without a word: what it is told
    in plain, it takes for noise."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    host, port = address
    try:
        async with asyncio.timeout(patience):
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, host, port, ssl=anybody
            )
    except (OSError, TimeoutError):
        return False
    transport.abort()
    return True
