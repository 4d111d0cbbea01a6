"""What all models have in common."""

from pydantic import BaseModel, ConfigDict


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Model(BaseModel):
    """A part of the API. Its fields are in snake_case here and in kebab-case on the wire."""

    model_config = ConfigDict(
        alias_generator=_kebab,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
    )
