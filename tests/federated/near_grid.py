"""Flower's grid without processes."""

from types import SimpleNamespace


class NearGrid:
    """A grid, as far as it is used, whose nodes are functions of what is sent to them."""

    def __init__(self, nodes, registered=()):
        self.nodes = dict(nodes)
        self.registered = dict(registered)
        self.sent = []
        self._replies = {}

    def get_nodes(self):
        return [
            SimpleNamespace(node_id=node, name=self.registered.get(node, "")) for node in self.nodes
        ]

    def push_messages(self, messages):
        numbers = []
        for message in messages:
            self.sent.append(message)
            number = f"m{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = number
            answer = self.nodes[message.metadata.dst_node_id](message)
            if answer is not None:
                self._replies[number] = answer
            numbers.append(number)
        return numbers

    def pull_messages(self, message_ids):
        found = [self._replies.pop(number) for number in message_ids if number in self._replies]
        for answer in found:
            if isinstance(answer, Exception):
                raise answer
        return found
