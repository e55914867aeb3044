"""A model server that does what the last user message tells it to.

Run the package; it prints ``listening http://127.0.0.1:PORT``. It serves
``/v1/chat/completions`` and ``/v1/messages`` and knows nothing of the code under
test. Several commands may stand in one pair of brackets:

    [[n=200 d=5]]             200 words, 5 ms apart (default n=20 d=0)
    [[first=300]]             wait 300 ms before the first word
    [[tool=NAME {json}]]      call the tool first; after its result, reply
    [[tools=K NAME {json}]]   K rounds of that tool call before the reply
    [[calls=A {json} ;; B {json}]]  several calls in one reply, then reply
    [[loop=NAME {json}]]      call that tool for ever
    [[badargs]]               a tool call whose arguments are broken JSON, then reply
    [[before=K]]              K words before the tool call
    [[reason=K]]              K words of reasoning before everything else
    [[stamp]]                 each word is @<unix microseconds of its emission>
    [[id=tag]]                words are tag-0, tag-1, ...
    [[usage=in,out,cached]]   tokens told at the end (``in`` without the cached ones)
    [[finish=length]]         the finish reason, in OpenAI's words
    [[status=500]]            answer with that HTTP status; also retry_after=SECONDS
    [[overflow]]              the provider's error for an exhausted window
    [[cut=K]]                 drop the connection after K words
    [[stall=K]]               send nothing more after K words, stay open
    [[hang]]                  send headers and nothing more
    [[silent]]                send nothing at all
    [[times=K]]               only the first K requests with this text fail as told above
    [[key=NAME]]              with times: only the first K requests with this key fail
    [[gate=name]]             hold before the first word until POST /gate/name/open
    [[hold=K]]                with a gate: hold there after K words instead
    [[aside=name]]            hold requests without tools about this conversation at that gate

``GET /gate/name`` says how many wait there. ``GET /served`` lists the requests,
``GET /served/N`` shows the body and headers of one of the last 200, ``DELETE
/served`` forgets all. A request without tools asks for a title: three words at once.
"""
