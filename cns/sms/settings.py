"""An account's SMS attributes, and the numbers that opted out of its SMS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cns.limits import PAGE_SIZE
from cns.paging import page_of, read_token
from cns.sms.attributes import check_account_attributes, visible_attributes
from cns.sms.numbers import check_number
from cns.stores.mobile_contract import SmsStore
from cns_common.aws.call import Call


class SmsSettings:
    """Calls concern only the caller's own account: these settings have no ARN."""

    def __init__(self, store: SmsStore) -> None:
        self._store = store

    async def attributes(self, call: Call, wanted: Sequence[str]) -> dict[str, str]:
        return visible_attributes(await self._store.attributes(call.caller.account, call.region), wanted)

    async def set_attributes(self, call: Call, given: Mapping[str, str]) -> None:
        check_account_attributes(given)
        await self._store.set_attributes(call.caller.account, call.region, dict(given))

    async def is_opted_out(self, call: Call, number: str) -> bool:
        return await self._store.opted_out(call.caller.account, check_number(number))

    async def opt_in(self, call: Call, number: str) -> None:
        """Succeeds, too, if the number never opted out."""
        await self._store.opt_in(call.caller.account, check_number(number))

    async def opted_out(self, call: Call, token: str | None) -> tuple[Sequence[str], str | None]:
        numbers = await self._store.page_of_opted_out(call.caller.account, read_token(token), PAGE_SIZE + 1)
        return page_of(numbers, str)
