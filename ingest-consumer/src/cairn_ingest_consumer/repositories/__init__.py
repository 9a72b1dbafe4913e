"""Keeping runbooks in step with the repositories that they are written in.

A push is only a dirty mark. What is done about it depends on nothing but the tree at the end of the branch and the
runbooks that MongoDB holds, so marks may be late, lost, repeated or out of order.
"""
